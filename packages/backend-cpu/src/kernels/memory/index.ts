export { fillBytes, memoryKernels, planCopy, planFill, planNothing, planTouch } from "./memory.js";
