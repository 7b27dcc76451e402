from hypothesis import settings

# No example is judged by how long it took: the machine may be busy with other things.
settings.register_profile("kvtop", deadline=None)
settings.load_profile("kvtop")
