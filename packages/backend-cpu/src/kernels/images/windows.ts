import type { PoolWindows } from "@backplane/core";
import { type Arg, type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";

/** One axis: its extent in the input, the places of a window and between windows, and before and after the input. */
export interface WindowAxis {
  readonly size: Local<"i32">;
  readonly taps: Local<"i32">;
  readonly step: Local<"i32">;
  readonly spread: Local<"i32">;
  readonly before: Local<"i32">;
  readonly after: Local<"i32">;
}

/** The parameters of kernels that say where windows are. */
export const windowPlaces = {
  height: "i32",
  width: "i32",
  outHeight: "i32",
  outWidth: "i32",
  kernelHeight: "i32",
  kernelWidth: "i32",
  strideY: "i32",
  strideX: "i32",
  top: "i32",
  left: "i32",
  dilationY: "i32",
  dilationX: "i32",
} as const;

export type WindowPlaces = typeof windowPlaces;

const poolTypes = { bottom: "i32", right: "i32", countPadding: "i32" } as const;

/** The parameters of a kernel that are a `PoolWindows` of core. */
export const windowTypes: WindowPlaces & typeof poolTypes = { ...windowPlaces, ...poolTypes };

export type WindowName = keyof typeof windowTypes;
type Windows<Of> = Readonly<Record<WindowName, Of>>;

/** Adds the parameters in the order of `windowTypes`. Objects put together here took as long as the rest of a small call. */
export function pushWindows(parameters: number[], problem: PoolWindows): void {
  const { height, width, outHeight, outWidth, kernelHeight, kernelWidth, strideY, strideX } = problem;
  const { top, left, dilationY, dilationX, bottom, right, countPadding } = problem;
  parameters.push(height, width, outHeight, outWidth, kernelHeight, kernelWidth, strideY, strideX);
  parameters.push(top, left, dilationY, dilationX, bottom, right, countPadding ? 1 : 0);
}

export function windowAxes(p: Windows<Local<"i32">>): Readonly<Record<"y" | "x", WindowAxis>> {
  return {
    y: {
      ...{ size: p.height, taps: p.kernelHeight, step: p.strideY, spread: p.dilationY },
      ...{ before: p.top, after: p.bottom },
    },
    x: {
      ...{ size: p.width, taps: p.kernelWidth, step: p.strideX, spread: p.dilationX },
      ...{ before: p.left, after: p.right },
    },
  };
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
