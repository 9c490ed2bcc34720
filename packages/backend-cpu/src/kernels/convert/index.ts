export { widening, wideningKernels } from "./convert.js";
