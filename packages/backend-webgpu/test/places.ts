import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { assert } from "chai";
import { type Arrays, decode, noise } from "./support.js";

/** Bytes in memory of their own, with noise before and after them. */
export interface Place {
  /** All bytes of the memory, as they were before a call. */
  readonly image: Uint8Array<ArrayBuffer>;
  readonly offset: number;
  readonly length: number;
  /** For calls. */
  readonly at: { readonly handle: DeviceHandle; readonly byteOffset: number };
}

/** Operands of one call, and what has become of them. */
export class Places {
  readonly #backend: ComputeBackend;
  readonly #handles: DeviceHandle[] = [];

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  place(contents: Uint8Array, offset: number): Place {
    const image = noise(offset + contents.length + 37);
    image.set(contents, offset);
    const handle = this.#backend.alloc(image.length);
    this.#handles.push(handle);
    this.#backend.copyHtoD(handle, image);
    return { image, offset, length: contents.length, at: { handle, byteOffset: offset } };
  }

  /** Returns the elements at a place. Fails if a byte around them has changed. */
  async read<Type extends keyof Arrays>(place: Place, dtype: Type, label: string): Promise<Arrays[Type]> {
    const { image, offset, length, at } = place;
    const stored = new Uint8Array(image.length);
    await this.#backend.copyDtoH(stored, at.handle);
    const own = stored.slice(offset, offset + length);
    const expected = image.slice();
    expected.set(own, offset);
    assert.equal(Buffer.compare(stored, expected), 0, `${label}: a byte around it has changed`);
    return decode(own, dtype);
  }

  /** Fails unless each element at a place is within its tolerance, and no byte around them has changed. */
  async check(
    place: Place,
    dtype: keyof Arrays,
    { values, tolerances }: { readonly values: Float64Array; readonly tolerances: Float64Array },
    label: string,
  ): Promise<void> {
    const results = await this.read(place, dtype, label);
    for (const [i, value] of values.entries())
      if (!(Math.abs(results[i]! - value) <= tolerances[i]!))
        assert.fail(`${label}: element ${i} is ${results[i]}, not ${value}`);
  }

  free(): void {
    for (const handle of this.#handles) this.#backend.free(handle);
  }
}
