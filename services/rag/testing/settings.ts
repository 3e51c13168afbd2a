/** Parses settings for tests like a file. */
import { ragSettings } from '../configuration/index.ts'
import type { RagSettings } from '../configuration/types.ts'

/** `pipelines`: a YAML list. */
export const settingsOf = (text: string): RagSettings =>
  ragSettings({
    path: 'rag.yaml',
    text,
    environment: { HOME: '/nowhere' },
    readFile: () => {
      throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    },
  })
