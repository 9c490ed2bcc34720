import type { DeviceFeatures } from "../../device/index.js";

/** The modules of `matrix-units.ts`. */
type MatrixUnits = typeof import("./matrix-units.js");

let units: MatrixUnits | undefined;

/** Gives programs that have all kernels these, too. */
export function provideUnits(modules: MatrixUnits): void {
  units = modules;
}

/** Few devices have matrix units. So a page loads the kernels for them when it opens such a device. */
export async function loadUnits({ subgroupMatrices }: DeviceFeatures): Promise<void> {
  if (subgroupMatrices.length > 0) units ??= await import("./matrix-units.js");
}

/** Variants that need them are possible only on devices for which they were loaded. */
export function matrixUnits(): MatrixUnits {
  return units!;
}
