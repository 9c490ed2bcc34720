import { after, before, describe, it } from "node:test";
import { describeBackend } from "@backplane/conformance";
import { subject } from "../subject.js";

describeBackend(subject, { describe, it, before, after });
