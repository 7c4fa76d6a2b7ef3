"""What was read lately: blobs by id, at most so many bytes of them. Blobs never change, so nothing here goes stale."""

from collections import OrderedDict
from threading import Lock


class BlobCache:
    """The blobs that were used last. Safe for several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, blob_id: str) -> bytes | None:
        """Return a blob that is kept, or ``None``."""
        with self._lock:
            data = self._blobs.get(blob_id)
            if data is not None:
                self._blobs.move_to_end(blob_id)
            return data

    def put(self, blob_id: str, data: bytes) -> None:
        """Keep a blob, and let go of those that were not used for longest; one over the whole bound is not kept."""
        with self._lock:
            if blob_id in self._blobs or len(data) > self._most:
                return
            self._blobs[blob_id] = data
            self._bytes += len(data)
            while self._bytes > self._most:
                _, dropped = self._blobs.popitem(last=False)
                self._bytes -= len(dropped)
