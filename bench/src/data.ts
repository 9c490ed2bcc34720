import {
  type ComputeBackend,
  type DeviceHandle,
  decodeFloat16,
  encodeFloat16,
  type FloatType,
} from "@backplane/core";

/**
 * Elements after which inputs repeat: 8 times a prime, so that no two rows or columns of the matrices
 * here are equal, and device copies of whole periods are aligned.
 */
export const period: number = 8 * 65_537;

/**
 * Uniform random numbers in [-1, 1), or whole ones (i32, or bytes) in [0, `below`), the same for the same seed, which
 * repeat after `period` elements.
 */
export class PeriodicData {
  /** The stored data: f16 as its bits. */
  readonly stored: Float32Array | Uint16Array | Int32Array | Uint8Array;
  readonly dtype: FloatType;
  readonly #values: Float32Array | Int32Array | Uint8Array;

  constructor(dtype: FloatType, seed: number, below?: number, isBytes = false) {
    const random = generator(seed);
    const drawn = Float32Array.from({ length: period }, () => random() * 2 - 1);
    this.dtype = dtype;
    if (below !== undefined) {
      const whole = (x: number) => Math.floor(((x + 1) / 2) * below);
      this.#values = isBytes ? Uint8Array.from(drawn, whole) : Int32Array.from(drawn, whole);
      this.stored = this.#values;
      return;
    }
    this.stored = dtype === "f16" ? encodeFloat16(drawn) : drawn;
    this.#values = this.stored instanceof Uint16Array ? decodeFloat16(this.stored) : drawn;
  }

  /** The value of one element. */
  at(index: number): number {
    return this.#values[index % period]!;
  }

  /** Writes the first elements to the device: one period from the host, and copies of it there. */
  write(backend: ComputeBackend, handle: DeviceHandle, elements: number): void {
    const first = Math.min(elements, period);
    backend.copyHtoD(handle, this.stored.subarray(0, first));
    const size = this.stored.BYTES_PER_ELEMENT;
    for (let done = first; done < elements; ) {
      const more = Math.min(done, elements - done);
      backend.copyDtoD({ handle, byteOffset: done * size }, handle, more * size);
      done += more;
    }
  }

  /** The first elements in host memory, as f32: whole numbers too. */
  toArray(elements: number): Float32Array {
    const array = new Float32Array(elements);
    for (let i = 0; i < elements; i += period)
      array.set(this.#values.subarray(0, Math.min(period, elements - i)), i);
    return array;
  }
}

/** Uniform numbers in [0, 1): mulberry32, by Tommy Ettinger, public domain. */
export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
