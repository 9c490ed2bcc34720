// Tags: proof, pure
import { describeBackend } from "@backplane/conformance";
import { lazy } from "#src/index.js";

describeBackend({ name: "the lazy backend", create: lazy.create }, { describe, it, before, after });
