import type { PoolWindows } from "@backplane/core";

/** The rows of a window, or its columns. */
export interface WindowAxis {
  readonly size: number;
  readonly taps: number;
  readonly step: number;
  readonly spread: number;
  readonly before: number;
  readonly after: number;
}

export function axesOf(windows: PoolWindows): Readonly<Record<"y" | "x", WindowAxis>> {
  const { height, width, kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = windows;
  const { top, left, bottom, right } = windows;
  return {
    y: { size: height, taps: kernelHeight, step: strideY, spread: dilationY, before: top, after: bottom },
    x: { size: width, taps: kernelWidth, step: strideX, spread: dilationX, before: left, after: right },
  };
}

/** The first place of a window, which may be before the input. */
export function startOf({ step, before }: WindowAxis, window: number): number {
  return window * step - before;
}

/** The taps of a window that are in the input, [first, end), and how many a mean is of. */
export function tapsOf(
  axis: WindowAxis,
  window: number,
  countPadding: boolean,
): { readonly first: number; readonly end: number; readonly counted: number } {
  const { size, taps, spread, after } = axis;
  const start = startOf(axis, window);
  const below = (bound: number) => Math.min(taps, Math.max(0, Math.ceil((bound - start) / spread)));
  const [first, end] = [below(0), below(size)];
  return { first, end, counted: countPadding ? below(size + after) : end - first };
}

/** The square windows without dilation that kernels for strips are generated for. */
export interface SquareWindow {
  readonly kernel: 2 | 3;
  readonly stride: 1 | 2;
  /** Padding on the left: where windows begin. */
  readonly left: 0 | 1;
}

/** Undefined for all other windows. */
export function squareWindow(windows: PoolWindows): SquareWindow | undefined {
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = windows;
  if (kernelHeight !== kernelWidth || strideY !== strideX || dilationY * dilationX !== 1) return undefined;
  const isOneOf = <Value extends number>(value: number, ...values: readonly Value[]) =>
    values.find((one) => one === value);
  const kernel = isOneOf(kernelHeight, 2, 3);
  const stride = isOneOf(strideY, 1, 2);
  const left = isOneOf(windows.left, 0, 1);
  if (kernel === undefined || stride === undefined || left === undefined) return undefined;
  return { kernel, stride, left };
}

/** Below all coordinates. */
const LOWEST = -(2 ** 30);

/** Places along each axis that a mean is of: those in [low, high). */
export function countedPlaces({ countPadding, height, width, bottom, right }: PoolWindows): {
  readonly low: number;
  readonly high_y: number;
  readonly high_x: number;
} {
  return countPadding
    ? { low: LOWEST, high_y: height + bottom, high_x: width + right }
    : { low: 0, high_y: height, high_x: width };
}

/** Of a convolution. */
export type FilterWindows = Readonly<
  Record<
    | "outHeight"
    | "outWidth"
    | "kernelHeight"
    | "kernelWidth"
    | "strideY"
    | "strideX"
    | "dilationY"
    | "dilationX",
    number
  >
>;

/** The rows and columns that all windows together have, the padding among them. */
export function windowExtents(windows: FilterWindows): { readonly height: number; readonly width: number } {
  const extent = (count: number, step: number, taps: number, spread: number) =>
    (count - 1) * step + (taps - 1) * spread + 1;
  return {
    height: extent(windows.outHeight, windows.strideY, windows.kernelHeight, windows.dilationY),
    width: extent(windows.outWidth, windows.strideX, windows.kernelWidth, windows.dilationX),
  };
}
