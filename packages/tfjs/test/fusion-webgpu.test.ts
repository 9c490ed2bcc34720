// Tags: kernels
import { webgpu } from "@backplane/backend-webgpu";
import { describeFusion } from "./fusion.js";

describeFusion(webgpu, 100);
