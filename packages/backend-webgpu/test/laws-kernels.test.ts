// Tags: kernels, pure, long
import { laws } from "@backplane/conformance";
import {
  compilesMuch,
  describeWebGpu,
  isOnLargeKernels,
  isOnManyCalls,
  meetsMostWithFewest,
  soonCompiled,
} from "./laws-support.js";

const chosen = laws.filter((law) => isOnLargeKernels(law) || isOnManyCalls(law));

describeWebGpu(
  chosen.filter((law) => !compilesMuch(law)),
  10,
);
// By the kernels that the backend chooses, and by those that compile soonest: each of them, in every form, is held
// to the formula by the package's own tests.
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && meetsMostWithFewest(law)),
  5,
);
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && !meetsMostWithFewest(law)),
  5,
  soonCompiled,
);
