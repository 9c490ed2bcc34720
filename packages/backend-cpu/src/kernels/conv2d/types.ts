/** The parameters of kernels of convolutions that say where windows are. */
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
