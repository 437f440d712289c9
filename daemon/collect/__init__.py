"""Pictures of the cameras, collected under labels, and teaching a network by them."""
