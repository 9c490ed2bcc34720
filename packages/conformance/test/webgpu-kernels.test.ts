// Tags: kernels, long
import { type Law, laws } from "#src/index.js";
import { describeWebGpu, needsLargeKernels } from "./support/webgpu.js";

const chosen = laws.filter(needsLargeKernels);

/** Nearly every further case of these needs a kernel of its own, which takes a software adapter seconds to compile. */
const compilesMuch = ({ topic }: Law): boolean => topic === "conv2d" || topic === "attention";

describeWebGpu(
  chosen.filter((law) => !compilesMuch(law)),
  20,
);
describeWebGpu(chosen.filter(compilesMuch), 8);
