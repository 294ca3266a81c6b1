"""What foreign formats hold, as plain data and message types shared by their readers (`io`) and writers (`export`).

Nothing here reads or writes a file, and nothing of ours is imported but `core`.
"""
