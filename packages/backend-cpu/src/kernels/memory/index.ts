export { fillBytes, memoryKernels, planCopy, planFill, planNothing } from "./memory.js";
