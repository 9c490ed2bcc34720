import type { Checks } from "../checks.js";

/** A shape with the strides of several operands that broadcast to it. */
export interface BroadcastAxes {
  readonly shape: readonly number[];
  /** For each operand, elements per step along each axis; 0 where it repeats. */
  readonly strides: readonly (readonly number[])[];
  /** For each axis of the shape as given, which one it is now. Undefined: it has one place, or none of its own. */
  readonly places: readonly (number | undefined)[];
}

/** Fails if a shape does not broadcast to another one, aligned at the last axis. */
export function checkBroadcast(
  checks: Checks,
  argument: string,
  given: readonly number[],
  shape: readonly number[],
): void {
  const skipped = shape.length - given.length;
  let fits = skipped >= 0;
  for (let i = 0; i < given.length; i++) if (given[i] !== shape[skipped + i] && given[i] !== 1) fits = false;
  if (!fits)
    checks.fail(
      argument,
      `is [${given.join(", ")}]; allowed: what broadcasts to [${shape.join(", ")}], axis by axis from the last: ` +
        "the same extent, 1 or none",
    );
}

/**
 * Drops axes of extent 1, and merges neighbours if every operand allows it and neither is `kept`. `shapes` have been
 * checked to broadcast to the shape.
 */
export function mergeBroadcast(
  shape: readonly number[],
  shapes: readonly (readonly number[])[],
  kept: readonly boolean[],
): BroadcastAxes {
  const extents: number[] = [];
  const strides: number[][] = shapes.map(() => []);
  const places = new Array<number | undefined>(shape.length).fill(undefined);
  const steps = shapes.map(() => 1);
  const along = shapes.map(() => 0);
  let mayMerge = false;
  // From the last axis on; the lists are turned around at the end.
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const extent = shape[axis]!;
    if (extent === 1) continue;
    const inner = extents.length - 1;
    const isKept = kept[axis] === true;
    let merges = inner >= 0 && mayMerge && !isKept;
    for (let i = 0; i < shapes.length; i++) {
      const own = shapes[i]![shapes[i]!.length - shape.length + axis] ?? 1;
      along[i] = own === 1 ? 0 : steps[i]!;
      if (merges && along[i] !== strides[i]![inner]! * extents[inner]!) merges = false;
    }
    if (merges) extents[inner] = extents[inner]! * extent;
    else {
      extents.push(extent);
      for (let i = 0; i < along.length; i++) strides[i]!.push(along[i]!);
      if (isKept) places[axis] = extents.length - 1;
    }
    mayMerge = !isKept;
    for (let i = 0; i < along.length; i++) if (along[i] !== 0) steps[i] = steps[i]! * extent;
  }
  return {
    shape: extents.reverse(),
    strides: strides.map((list) => list.reverse()),
    places: places.map((place) => (place === undefined ? undefined : extents.length - 1 - place)),
  };
}

/** Returns the shape to which all shapes broadcast, aligned at the last axis. Fails if there is none. */
export function broadcastShape(
  checks: Checks,
  shapes: readonly (readonly [argument: string, shape: readonly number[]])[],
): readonly number[] {
  const rank = shapes.reduce((most, [, { length }]) => Math.max(most, length), 0);
  const result = new Array<number>(rank).fill(1);
  for (const [i, [argument, shape]] of shapes.entries())
    for (let axis = 1; axis <= shape.length; axis++) {
      const extent = shape[shape.length - axis]!;
      const found = result[rank - axis]!;
      if (extent === 1 || extent === found) continue;
      if (found !== 1) {
        const before = shapes.slice(0, i).map(([name, other]) => `${name} [${other.join(", ")}]`);
        checks.fail(argument, `[${shape.join(", ")}] does not broadcast with ${before.join(" and ")}`);
      }
      result[rank - axis] = extent;
    }
  return result;
}
