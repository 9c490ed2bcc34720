// Tags: kernels, pure, long
import { laws } from "@backplane/conformance";
import {
  compilesMuch,
  describeWebGpu,
  isAroundKernels,
  meetsMostWithFewest,
  soonCompiled,
} from "./laws-support.js";

const chosen = laws.filter((law) => !isAroundKernels(law));

describeWebGpu(
  chosen.filter((law) => !compilesMuch(law)),
  { runs: 10 },
);
// By the kernels that the backend chooses, and by those that compile soonest: each of them, in every form, is held
// to the formula by the package's own tests.
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && meetsMostWithFewest(law)),
  { runs: 5 },
);
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && !meetsMostWithFewest(law)),
  { runs: 5 },
  soonCompiled,
);
