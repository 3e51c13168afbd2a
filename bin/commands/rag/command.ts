/** Helpers of the subcommands of `espalier rag`: find the configuration and report its errors. */
import { existsSync } from 'node:fs'
import { ConfigurationError } from '../../../services/configuration/errors.ts'
import { readRagSettings } from '../../../services/rag/configuration/index.ts'
import type { PipelineSettings, RagSettings } from '../../../services/rag/configuration/types.ts'
import { UsageError } from '../../command.ts'

const defaultFiles = ['/etc/espalier/espalier-rag.yaml', 'espalier-rag.yaml']

/** Returns the named file, or the first default file that exists. @throws UsageError */
export function configurationPath(named: string | undefined): string {
  const path = named ?? defaultFiles.find(file => existsSync(file))
  if (path === undefined || path === '')
    throw new UsageError(`CONFIG is missing, and neither ${defaultFiles.join(' nor ')} exists; see --help`)
  return path
}

/** @throws UsageError with all problems, one per line */
export function readSettings(path: string, onFile?: (path: string) => void): RagSettings {
  try {
    return readRagSettings(path, { environment: process.env, ...(onFile && { onFile }) })
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    throw new UsageError(`the configuration is invalid:\n${error.message}`)
  }
}

/** @throws UsageError with the list of known pipelines */
export function pipelineNamed(config: string | undefined, name: string | undefined): PipelineSettings {
  if (config === undefined || name === undefined) throw new UsageError('CONFIG and PIPELINE are required; see --help')
  const { pipelines } = readSettings(configurationPath(config))
  const pipeline = pipelines.find(one => one.name === name)
  if (pipeline !== undefined) return pipeline
  const known = pipelines.map(one => one.name).join(', ')
  throw new UsageError(`PIPELINE: unknown pipeline ${JSON.stringify(name)}; known pipelines: ${known}`)
}

/** @throws UsageError that names the option */
export function integerOption(
  flag: string,
  text: string | undefined,
  defaultValue: number,
  least: number,
  most: number,
): number {
  if (text === undefined) return defaultValue
  const value = Number(text)
  if (/^\d{1,9}$/.test(text) && value >= least && value <= most) return value
  throw new UsageError(`${flag} must be a whole number from ${least} to ${most}`)
}
