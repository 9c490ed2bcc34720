// Tags: kernels, pure, long
import { laws } from "@backplane/conformance";
import {
  compilesMuch,
  describeWebGpu,
  isAroundKernels,
  isOnWideIntegers,
  meetsMostWithFewest,
  soonCompiled,
} from "./laws-support.js";

const chosen = laws.filter((law) => !isAroundKernels(law));

const others = chosen.filter((law) => !compilesMuch(law));
describeWebGpu(
  others.filter((law) => !isOnWideIntegers(law)),
  { runs: 5 },
);
describeWebGpu(others.filter(isOnWideIntegers), { mode: "quick" });
// By the kernels that the backend chooses, and by those that compile soonest: each of them, in every form, is held
// to the formula by the package's own tests.
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && meetsMostWithFewest(law)),
  { runs: 3 },
);
describeWebGpu(
  chosen.filter((law) => compilesMuch(law) && !meetsMostWithFewest(law)),
  { runs: 3 },
  soonCompiled,
);
