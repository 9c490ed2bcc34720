import { type DType, dtypeBytes } from "@backplane/core";
import { load, type Place, type ReferenceMemory, storeInto } from "../elements.js";

/* What mutants do to the operands of a problem. */

/** A copy of a region in a memory of its own, with every element passed through a function. */
export function mapped(region: Place, dtype: DType, change: (value: number, i: number) => number): Place {
  const memory = new Uint8Array(region.byteLength);
  const copy = { memory, byteOffset: 0, byteLength: region.byteLength };
  if (region.byteLength === 0) return copy;
  const store = storeInto(copy, dtype);
  for (const [i, value] of load(region, dtype).entries()) store(i, change(value, i));
  return copy;
}

/** A region made of some elements of another, in a memory of its own. */
export function picked(region: Place, dtype: DType, places: readonly number[]): Place {
  const memory = new Uint8Array(Math.max(places.length, 1) * dtypeBytes[dtype]);
  const copy = { memory, byteOffset: 0, byteLength: places.length * dtypeBytes[dtype] };
  const values = load(region, dtype);
  const store = storeInto(copy, dtype);
  for (const [i, place] of places.entries()) store(i, values[place]!);
  return copy;
}

/** The region without its first elements. */
export function skipping(region: Place, dtype: DType, elements: number): Place {
  const bytes = Math.min(elements * dtypeBytes[dtype], region.byteLength);
  return { ...region, byteOffset: region.byteOffset + bytes, byteLength: region.byteLength - bytes };
}

/**
 * Returns a function that remembers the first contents of each region, as a backend does that prepares weights once.
 */
export function remembering(): (region: Place) => Place {
  const known = new WeakMap<ReferenceMemory, Map<string, Place>>();
  return (region) => {
    const { memory, byteOffset, byteLength } = region;
    const places = known.get(memory) ?? new Map<string, Place>();
    known.set(memory, places);
    const key = `${byteOffset} ${byteLength}`;
    const copy = places.get(key) ?? {
      ...{ memory: memory.slice(byteOffset, byteOffset + byteLength), byteOffset: 0, byteLength },
    };
    places.set(key, copy);
    return copy;
  };
}

/** The region and everything behind it in its allocation. */
export function throughEnd(region: Place, dtype: DType): Place {
  const rest = region.memory.length - region.byteOffset;
  return { ...region, byteLength: rest - (rest % dtypeBytes[dtype]) };
}

/** Writes zeros behind a region, up to the next multiple of so many bytes from its start. */
export function storeWholeVectors({ memory, byteOffset, byteLength }: Place, vectorBytes: number): void {
  const end = byteOffset + Math.ceil(byteLength / vectorBytes) * vectorBytes;
  memory.fill(0, byteOffset + byteLength, end);
}

/** Keeps `bits` explicit bits of the fraction: 10 for TF32 and f16. */
export function truncate(value: number, bits: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const spacing = 2 ** (Math.floor(Math.log2(Math.abs(value))) - bits);
  return Math.round(value / spacing) * spacing;
}
