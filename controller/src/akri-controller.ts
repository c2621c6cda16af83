#!/usr/bin/env node
import { runProgram } from '@akrijs/sdk/host'
import { type ControllerProgramOptions, controllerOptions } from './program/controller-options.js'
import { runController } from './program/run-controller.js'

await runProgram<ControllerProgramOptions>({
  name: 'akri-controller',
  description: 'The Akri controller of a Kubernetes: starts what uses the devices, and tidies up after nodes that are gone.',
  version: '0.1.0',
  options: controllerOptions(),
  run: runController,
})
