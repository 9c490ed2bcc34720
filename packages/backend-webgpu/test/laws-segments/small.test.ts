// Tags: kernels, pure, long
import { describeBackend } from "@backplane/conformance";
import { lawsOnOperations, withBindingsOf } from "./support.js";

// Nearly everything is divided, and again; large shapes would take long.
describeBackend(
  {
    name: "WebGPU with bindings of 1 KiB",
    create: () => withBindingsOf(1024),
    options: {
      laws: lawsOnOperations.filter(
        ({ name }) => name.endsWith("is exact on whole numbers") || name.startsWith("touches"),
      ),
      mode: "quick",
    },
  },
  globalThis,
);
