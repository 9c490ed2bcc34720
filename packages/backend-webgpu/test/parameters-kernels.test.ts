// Tags: kernels, pure
import { callsLargeKernels, describeParameters } from "./parameter-calls.js";

describeParameters(callsLargeKernels);
