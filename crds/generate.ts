/** `make crds`: writes every CRD to crds/generated/ and to the Helm chart, one YAML file per kind. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { definitionOf } from './definition.ts'
import { declarations } from './index.ts'

/** Maps file names to content, for every kind. */
export function generatedFiles(): Map<string, string> {
  return new Map(
    Object.values(declarations).map(declaration => {
      const definition = definitionOf(declaration)
      const text = stringify(definition, { lineWidth: 120, aliasDuplicateObjects: false })
      return [`${definition.metadata.name}.yaml`, `# Written by \`make crds\` from crds/; do not edit.\n${text}`]
    }),
  )
}

const directory = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

export const generatedDirectory = directory('generated')
/** Helm installs these CRDs with the first install and never updates them. `espalier bootstrap` updates them. */
const chartDirectory = directory('../charts/espalier/crds')

if (import.meta.main) {
  for (const into of [generatedDirectory, chartDirectory]) {
    mkdirSync(into, { recursive: true })
    for (const [name, text] of generatedFiles()) writeFileSync(join(into, name), text)
  }
}
