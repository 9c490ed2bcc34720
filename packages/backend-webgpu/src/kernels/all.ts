import { chosenKernels } from "./chosen.js";
import { provideUnits } from "./gemm/index.js";
import * as matrixUnits from "./gemm/matrix-units.js";
import * as kernels from "./list.js";
import type { KernelSet } from "./set.js";

// Programs with all kernels do not load more later.
provideUnits(matrixUnits);

export const allKernels: KernelSet = chosenKernels(Object.values(kernels)).set;
