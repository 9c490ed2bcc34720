// Bundles the page of the conformance suite, after `tsc -b`: node tools/test-runner/dist/bundle-page.js
import { bundlePage } from "./page-bundle.js";

await bundlePage();
