/** What the subcommands of `espalier rag` share: where the configuration is, and how what is wrong with it is reported. */
import { existsSync } from 'node:fs'
import { ConfigurationError } from '../../../services/configuration/errors.ts'
import { readRagSettings } from '../../../services/rag/configuration/index.ts'
import type { PipelineSettings, RagSettings } from '../../../services/rag/configuration/types.ts'
import { UsageError } from '../../command.ts'

const usualFiles = ['/etc/espalier/espalier-rag.yaml', 'espalier-rag.yaml']

/** The file that is named, else the first usual one that is there. @throws UsageError */
export function configurationPath(named: string | undefined): string {
  const path = named ?? usualFiles.find(file => existsSync(file))
  if (path === undefined || path === '')
    throw new UsageError(`CONFIG is missing, and neither ${usualFiles.join(' nor ')} is there; --help tells more`)
  return path
}

/** @throws UsageError with all that is wrong, one problem a line */
export function readSettings(path: string, onFile?: (path: string) => void): RagSettings {
  try {
    return readRagSettings(path, { environment: process.env, ...(onFile && { onFile }) })
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    throw new UsageError(`the configuration is wrong:\n${error.message}`)
  }
}

/** @throws UsageError that lists those that are there */
export function pipelineNamed(config: string | undefined, name: string | undefined): PipelineSettings {
  if (config === undefined || name === undefined)
    throw new UsageError('CONFIG and PIPELINE are missing; --help tells more')
  const { pipelines } = readSettings(configurationPath(config))
  const pipeline = pipelines.find(one => one.name === name)
  if (pipeline !== undefined) return pipeline
  const known = pipelines.map(one => one.name).join(', ')
  throw new UsageError(`PIPELINE: there is no pipeline ${JSON.stringify(name)}; there are: ${known}`)
}

/** @throws UsageError that names the option */
export function wholeOption(
  flag: string,
  text: string | undefined,
  usual: number,
  least: number,
  most: number,
): number {
  if (text === undefined) return usual
  const value = Number(text)
  if (/^\d{1,9}$/.test(text) && value >= least && value <= most) return value
  throw new UsageError(`${flag} must be a whole number from ${least} to ${most}`)
}
