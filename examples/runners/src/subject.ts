import type { Subject } from "@backplane/conformance";
import { minimal } from "@backplane/example-minimal-backend";
import { forgetful } from "./forgetful.js";

/** The part that the three examples share. FORGETFUL=1 shows how a failure looks. */
export const subject: Subject = {
  name: "the template",
  create: process.env.FORGETFUL === "1" ? forgetful : minimal.create,
  // So that the examples take a moment only; without options everything runs.
  options: { mode: "quick", operations: ["gemm", "reduce"], dtypes: ["f32"] },
};
