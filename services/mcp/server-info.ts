/** The server's description of itself for clients. The icon is a data URI, so clients need not fetch it. */
import { version } from '../../server/version.ts'

/** A trellis with a branch. */
const drawing = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 48 48'>
<path d='M8 4v40M24 4v40M40 4v40M4 14h40M4 34h40' stroke='#c8a26a' stroke-width='2'/>
<path d='M24 44V26c0-8-8-4-8-14M24 30c0-8 10-4 10-14' fill='none' stroke='#336791' stroke-width='4' stroke-linecap='round'/>
<g fill='#4a9a5b'><circle cx='16' cy='11' r='5'/><circle cx='34' cy='14' r='5'/><circle cx='24' cy='24' r='4'/></g></svg>`

export const serverInfo = {
  name: 'espalier-mcp',
  title: 'Espalier Postgres',
  version,
  icons: [
    {
      src: `data:image/svg+xml;base64,${Buffer.from(drawing).toString('base64')}`,
      mimeType: 'image/svg+xml',
      sizes: ['any'],
    },
  ],
}
