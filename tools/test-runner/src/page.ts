// Runs in the page of an entry without a worker.
import { runEntry } from "./entry-run.js";
import { runnerOfPage } from "./page-messages.js";

// Not awaited here: the page would count as still loading until its entry is there.
void runEntry(runnerOfPage());
