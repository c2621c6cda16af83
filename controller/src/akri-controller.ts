#!/usr/bin/env node
import { startProgram } from '@akrijs/runtime/program'
import { controllerOptions } from './program/controller-options.js'
import { runController } from './program/run-controller.js'

await startProgram({
  name: 'akri-controller',
  description:
    'The Akri controller of a Kubernetes: starts what uses the devices, and tidies up after ' +
    'nodes that are gone.',
  version: '0.1.0',
  options: controllerOptions,
  run: runController,
})
