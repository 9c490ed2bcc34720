import type { Axis } from "@backplane/core";

/** Returns the offset of each place along some axes, in elements; the last axis moves fastest. */
export function offsets(axes: readonly Axis[]): readonly number[] {
  let places = [0];
  for (const { extent, stride } of axes) {
    const finer = new Array<number>(places.length * extent);
    for (let i = 0; i < finer.length; i++) finer[i] = places[Math.floor(i / extent)]! + (i % extent) * stride;
    places = finer;
  }
  return places;
}
