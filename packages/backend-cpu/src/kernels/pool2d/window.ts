import type { Pool2dKind } from "@backplane/core";
import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";

type Vector = Value<"v128">;

/** How lanes of a window are put together. */
export interface Combination {
  /** Changes nothing. A constant. */
  readonly identity: Vector;
  readonly combine: (f: FunctionBuilder, a: Vector, b: Vector) => Vector;
}

export const combinations: Readonly<Record<Pool2dKind, Combination>> = {
  max: {
    identity: f32x4.const(Number.NEGATIVE_INFINITY),
    /**
     * Either order gives the larger number, and keeps a NaN of its first operand; a NaN with other bits set remains one. `max`
     * itself takes three times as many instructions on x64.
     */
    combine(f, a, b) {
      const [x, y] = [f.let(a), f.let(b)];
      return v128.or(f32x4.pmax(x, y), f32x4.pmax(y, x));
    },
  },
  mean: { identity: f32x4.const(-0), combine: (_f, a, b) => f32x4.add(a, b) },
};

/** One axis: its extent in the input, the places of a window and between windows, and before and after the input. */
export interface WindowAxis {
  readonly size: Local<"i32">;
  readonly taps: Local<"i32">;
  readonly step: Local<"i32">;
  readonly spread: Local<"i32">;
  readonly before: Local<"i32">;
  readonly after: Local<"i32">;
}

/** Of one window: its first place, those that are in the input, [first, end), and how many a mean is of. */
export interface WindowLocals {
  readonly start: Local<"i32">;
  readonly first: Local<"i32">;
  readonly end: Local<"i32">;
  readonly counted: Local<"i32">;
}

export function windowLocals(f: FunctionBuilder): WindowLocals {
  const local = () => f.local("i32");
  return { start: local(), first: local(), end: local(), counted: local() };
}

/** Sets what is known of a window from its number. Only windows across the edge take divisions. */
export function setWindow(
  f: FunctionBuilder,
  window: WindowLocals,
  { size, taps, step, spread, before, after }: WindowAxis,
  number: Arg<"i32">,
  countPadding: Local<"i32">,
): void {
  const { start, first, end, counted } = window;
  /** The places of the window before this one of the image, which is not before its start. */
  const placesBefore = (place: Value<"i32">) =>
    i32.divU(i32.add(i32.sub(place, start), i32.sub(spread, 1)), spread);
  f.set(start, i32.sub(i32.mul(number, step), before));
  f.set(first, 0);
  f.set(end, taps);
  f.if(i32.ltS(start, 0), () => f.set(first, placesBefore(i32.const(0))));
  const last = f.let(i32.add(start, i32.mul(i32.sub(taps, 1), spread)));
  f.if(i32.geS(last, size), () => f.set(end, placesBefore(size)));
  f.if(
    countPadding,
    () => {
      f.set(counted, taps);
      const bound = f.let(i32.add(size, after));
      f.if(i32.geS(last, bound), () => f.set(counted, placesBefore(bound)));
    },
    () => f.set(counted, i32.sub(end, first)),
  );
}
