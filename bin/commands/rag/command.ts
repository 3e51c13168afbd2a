/** What the subcommands of `espalier rag` share: where the configuration is, and how what is wrong with it is reported. */
import { existsSync } from 'node:fs'
import { ConfigurationError } from '../../../services/configuration/errors.ts'
import { type RagConfiguration, readRagConfiguration } from '../../../services/rag/configuration/index.ts'
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
export function readConfiguration(path: string): RagConfiguration {
  try {
    return readRagConfiguration(path, process.env)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    throw new UsageError(`the configuration is wrong:\n${error.message}`)
  }
}
