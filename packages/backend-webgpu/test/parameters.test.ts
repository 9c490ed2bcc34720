import { callsLargeKernels, describeParameters } from "./parameter-calls.js";

describeParameters((name) => !callsLargeKernels(name));
