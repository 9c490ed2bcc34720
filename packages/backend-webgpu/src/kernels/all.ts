import { chosenKernels } from "./chosen.js";
import { splitting } from "./conv2d/index.js";
import * as splitModules from "./conv2d/split/split.js";
import * as kernels from "./list.js";
import * as matrixModules from "./matrix-units.js";
import type { KernelSet } from "./set.js";
import { matrixUnits } from "./units.js";

// Programs with all kernels do not load more later.
matrixUnits.provide(matrixModules);
splitting.provide(splitModules);

export const allKernels: KernelSet = chosenKernels(Object.values(kernels)).set;
