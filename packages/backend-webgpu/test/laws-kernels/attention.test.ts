// Tags: kernels, pure, long
import { describeLawsOnKernels } from "./families.js";

describeLawsOnKernels("attention");
