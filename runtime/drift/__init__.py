"""Has the light, the focus or the camera moved since the model was fitted?"""
