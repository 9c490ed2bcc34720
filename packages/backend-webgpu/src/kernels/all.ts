import { chosenKernels } from "./chosen.js";
import { splitting } from "./conv2d/index.js";
import * as splitModules from "./conv2d/split/split.js";
import { matrixUnits } from "./gemm/index.js";
import * as matrixModules from "./gemm/matrix-units.js";
import * as kernels from "./list.js";
import type { KernelSet } from "./set.js";

// Programs with all kernels do not load more later.
matrixUnits.provide(matrixModules);
splitting.provide(splitModules);

export const allKernels: KernelSet = chosenKernels(Object.values(kernels)).set;
