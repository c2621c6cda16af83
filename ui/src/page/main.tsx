import { render } from 'preact'
import { App } from './app.js'
import { follow } from './feed.js'
import './page.css'

const root = document.getElementById('page')
if (root !== null) render(<App />, root)
follow()
