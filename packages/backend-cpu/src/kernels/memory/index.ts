export { fillBytes, memoryKernels, planCopy, planFill, planNothing, planTouch } from "./memory.js";
export { emitMove, moveOne } from "./move.wasm.js";
