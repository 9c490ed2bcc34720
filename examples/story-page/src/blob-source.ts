import { type ByteSource, FileError } from "@backplane/example-story";

/** A file that somebody has chosen, which is read piece by piece. */
export class BlobSource implements ByteSource {
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  get size(): number {
    return this.#blob.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(await this.#blob.slice(offset, offset + length).arrayBuffer());
    if (bytes.length < length) throw new FileError(`It ends after ${offset + bytes.length} bytes.`);
    return bytes;
  }
}
