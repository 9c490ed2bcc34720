// Tags: kernels
import { callsLargeKernels, describeParameters } from "./parameter-calls.js";

describeParameters(callsLargeKernels);
