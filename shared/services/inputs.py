"""The input of a batch, as its lines are judged and planned: the scan of its file, or of a retry the part of it that is run again."""

from collections.abc import Iterator

from shared.core import paths, scan, selection
from shared.core.records import Batch
from shared.core.scan import Item
from shared.ports import Blobs


def index(batch: Batch, blobs: Blobs) -> Iterator[Item]:
    """Give the index of the lines that the batch runs, in line order. NotFound, at the latest with the first, when a file is gone."""
    everything = scan.entries(blobs.stream(paths.scan(batch.org, batch.input_file_id)))
    if batch.lines_file_id is None:
        return everything
    wanted = selection.of(blobs.stream(paths.file(batch.org, batch.lines_file_id)))
    return selection.only(everything, wanted)
