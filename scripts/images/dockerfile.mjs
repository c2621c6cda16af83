// Reads a Dockerfile.
import { DockerfileParser } from 'dockerfile-ast'

/**
 * @typedef {object} Step an instruction of a stage
 * @property {string} keyword in upper case
 * @property {Readonly<Record<string, string>>} flags such as `from`
 * @property {readonly string[]} args without quotes and flags
 * @property {string} text all that follows keyword and flags
 * @property {readonly (readonly [string, string])[]} properties of ARG, ENV and LABEL
 * @property {number} line
 */

/**
 * @typedef {object} Stage
 * @property {string} name empty if the stage has none
 * @property {string} from an image or the name of a stage
 * @property {string | undefined} platform
 * @property {readonly Step[]} steps
 * @property {number} line
 */

/** @returns {Stage[]} in the order of the file */
export function stagesOf(text) {
  const stages = []
  for (const instruction of DockerfileParser.parse(text).getInstructions()) {
    if (instruction.getKeyword() === 'FROM')
      stages.push({
        name: instruction.getBuildStage() ?? '',
        from: instruction.getImage() ?? '',
        platform: instruction.getPlatformFlag()?.getValue(),
        steps: [],
        line: instruction.getRange().start.line + 1,
      })
    else stages.at(-1)?.steps.push(stepOf(instruction))
  }
  return stages
}

/** The steps of a stage after those of the stages that it starts from. */
export function allSteps(stages, stage) {
  const below = stages.find(({ name }) => name !== '' && name === stage.from)
  return [...(below === undefined ? [] : allSteps(stages, below)), ...stage.steps]
}

/** The labels of the image of a stage. @returns {Record<string, string>} */
export function labelsOf(stages, stage) {
  return Object.fromEntries(
    allSteps(stages, stage).flatMap(({ keyword, properties }) =>
      keyword === 'LABEL' ? properties : [],
    ),
  )
}

function stepOf(instruction) {
  return {
    keyword: instruction.getKeyword(),
    flags: Object.fromEntries(
      (instruction.getFlags?.() ?? []).map((flag) => [flag.getName(), flag.getValue() ?? '']),
    ),
    args: instruction.getArguments().map((argument) => argument.getValue()),
    text: instruction.getRawArgumentsContent() ?? '',
    properties: (instruction.getProperties?.() ?? []).map((property) => [
      property.getName(),
      property.getValue() ?? '',
    ]),
    line: instruction.getRange().start.line + 1,
  }
}
