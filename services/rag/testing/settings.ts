/** Settings for tests, parsed like a file. */
import { ragSettings } from '../configuration/index.ts'
import type { RagSettings } from '../configuration/types.ts'

/** `pipelines`: YAML of a list. */
export const settingsOf = (text: string): RagSettings =>
  ragSettings({
    path: 'rag.yaml',
    text,
    environment: { HOME: '/nowhere' },
    readFile: () => {
      throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    },
  })
