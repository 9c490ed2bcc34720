import { describeBackend } from "@backplane/conformance";
import { minimal } from "#src/index.js";

describeBackend({ name: "the template", create: minimal.create }, { describe, it, before, after });
