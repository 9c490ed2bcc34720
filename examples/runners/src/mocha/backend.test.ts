import { describeBackend } from "@backplane/conformance";
import { subject } from "../subject.js";

// mocha's functions are global.
describeBackend(subject, { describe, it, before, after });
